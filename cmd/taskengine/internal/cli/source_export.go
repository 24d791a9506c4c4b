package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func newSourceExport(a *app) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "export SOURCE",
		Short: "Print the platforms of a source of time slices as source apply reads them",
		Long: `Print the platforms of a source of time slices, without removed ones, as lines of JSON: the name, the
values that are the platform's own and were set while nodes ran, and the version. source apply reads them: it refuses
a line if the platform has changed since.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := parseSource(args[0])
			if err != nil {
				return err
			}
			return a.with(func(c *client) error {
				all, _, err := (&platformFlags{prefix: prefix, all: true}).platforms(cmd.Context(), c, source)
				if err != nil {
					return err
				}
				for _, p := range all {
					if p.GetRemoved() {
						continue
					}
					line, err := json.Marshal(rowOf(p))
					if err != nil {
						return fmt.Errorf("write the line of %s: %w", clean(p.GetName()), err)
					}
					if _, err := fmt.Fprintf(a.stdout, "%s\n", line); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only platforms with names that begin with it")
	return cmd
}
