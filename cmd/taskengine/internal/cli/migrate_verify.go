package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

func newMigrateVerify(a *app) *cobra.Command {
	var flags databaseFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Show the differences between the database and the migrations",
		Long: `Compare tables, columns, constraints, indexes, triggers, views, sequences and functions with
the schema of the migrations, and show every difference; the exit code is 1 if there is one.
For that the migrations are applied to a schema of another name in a transaction that is rolled
back: the role must be allowed to create one. Tables of tasks that have ended come and go, and
are not compared, nor are owners and grants.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := flags.one(a)
			if err != nil {
				return err
			}
			found, err := t.Verify(cmd.Context())
			if err != nil {
				return err
			}
			return a.showDifferences(found, t.Schema)
		},
	}
	flags.add(cmd)
	return cmd
}

func (a *app) showDifferences(found []schema.Difference, name string) error {
	for _, d := range found {
		var err error
		if a.json() {
			err = a.printJSON(differenceJSON{d.Object, d.Is, d.Want})
		} else {
			_, err = fmt.Fprintln(a.stdout, clean(d.String()))
		}
		if err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return exit.Errorf(exit.Failure, "the schema %s differs in %d places from the migrations", name, len(found))
	}
	a.note("the schema %s is as the migrations make it", name)
	return nil
}

type differenceJSON struct {
	Object string `json:"object"`
	Is     string `json:"is,omitempty"`
	Want   string `json:"want,omitempty"`
}
