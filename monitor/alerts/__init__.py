"""Live runs: rules that are watched while a run trains, who is told, and once."""
