"""BabyAI: follow an instruction in a grid of rooms, seen from within."""
