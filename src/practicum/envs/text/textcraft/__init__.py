"""TextCraft: craft a Minecraft item from listed recipes."""
