"""Programs written for something else, run by Funken."""
