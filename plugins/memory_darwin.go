package plugins

// residentSize returns 0: macOS tells it to nobody but tools.
func residentSize(int) int64 { return 0 }
