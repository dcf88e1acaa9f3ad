"""ScienceWorld: elementary-school science experiments in a simulated house."""
