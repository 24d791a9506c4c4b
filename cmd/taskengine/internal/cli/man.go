package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/manual"
)

func newMan(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the pages of the manual into a folder, for man",
		Long: `Write the pages of the manual into a folder, one for each command. With the folder man1 below a
folder of MANPATH, man taskengine-task-list shows the page of taskengine task list:

  taskengine man ~/.local/share/man/man1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.InitDefaultCompletionCmd()
			n, err := manual.Write(args[0], root, a.build.Version)
			if err != nil {
				return exit.With(exit.Failure, err)
			}
			if a.json() {
				return a.printJSON(jsonObject{{"folder", args[0]}, {"pages", n}})
			}
			_, err = fmt.Fprintf(a.stdout, "%d pages are in %s\n", n, clean(args[0]))
			return err
		},
	}
}
