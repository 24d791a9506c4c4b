//go:build !unix

package handlers

import "os"

func signalOf(*os.ProcessState) (name string, killed bool) { return "", false }
