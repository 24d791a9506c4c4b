//go:build !unix

package cli

// maxDescriptors returns how many files this process may have open, zero if that is not known.
func maxDescriptors() uint64 { return 0 }
