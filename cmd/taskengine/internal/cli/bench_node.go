package cli

import (
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/bench"
)

// newBenchPlugin is the plugin that `bench run` starts.
func newBenchPlugin(*app) *cobra.Command {
	return &cobra.Command{
		Use: "plugin NAME TYPES", Hidden: true, Args: cobra.ExactArgs(2),
		Short: "Serve a handler that does nothing; started by bench run",
		RunE:  func(_ *cobra.Command, args []string) error { return bench.ServePlugin(args) },
	}
}

// newBenchNode is the node that `bench run` starts, and kills.
func newBenchNode(*app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "node FOLDER", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Be a node that is killed; started by bench run",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			return bench.ServeNode(cmd.Context(), args[0], o)
		},
	}
	cmd.Flags().StringVar(&f.store, "store", "pebble", "the store")
	cmd.Flags().StringVar(&f.python, "python", "python3", "the Python that runs plugins in Python")
	cmd.Flags().StringVar(&f.pySDK, "python-sdk", defaultPythonSDK, "where Python finds the package taskengine")
	f.dir = bench.DiskDir()
	return cmd
}
