package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/internal/access"
)

func newTokenList(a *app) *cobra.Command {
	var flags tokensFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens of clients",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := flags.path(a)
			if err != nil {
				return err
			}
			tokens, err := access.Read(path)
			if err != nil {
				return err
			}
			var rows [][]string
			for _, t := range tokens.List() {
				if a.json() {
					if err := a.printJSON(tokenToJSON(t, "")); err != nil {
						return err
					}
					continue
				}
				roles := make([]string, len(t.Roles))
				for i, r := range t.Roles {
					roles[i] = string(r)
				}
				rows = append(rows, []string{t.Name, strings.Join(roles, ","), strings.Join(t.Types, ","), t.Created.Format(time.RFC3339)})
			}
			if a.json() {
				return nil
			}
			return a.printTable([]string{"NAME", "ROLES", "TYPES", "CREATED"}, rows)
		},
	}
	flags.add(cmd)
	return cmd
}
