package main

import "github.com/spf13/cobra"

func newBench(*app) *cobra.Command {
	return group("bench", "Measure this machine with this engine on it")
}
