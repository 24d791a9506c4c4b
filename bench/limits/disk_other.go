//go:build !linux

package limits

import "os"

// syncData makes durable what was written to a file.
func syncData(f *os.File) error { return f.Sync() }
