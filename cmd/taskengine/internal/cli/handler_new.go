package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/scaffold"
)

func newHandlerNew(a *app) *cobra.Command {
	var lang, dir string
	cmd := &cobra.Command{
		Use:   "new --lang LANGUAGE NAME",
		Short: "Write the beginnings of a handler program",
		Long: `Write a small project in a new folder NAME: a handler program that serves the task type
NAME, a test, a configuration that runs it, and a README with the commands. The package
that the program is written with is in no registry yet: the project has its sources.

The languages are go, python, node, java and sh.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := scaffold.New(lang, dir, args[0])
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(scaffoldJSON{folder})
			}
			_, err = fmt.Fprintln(a.stdout, folder)
			a.note("%s says how to go on", filepath.Join(folder, "README.md"))
			return err
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "", "the language: "+strings.Join(scaffold.Languages(), ", "))
	cmd.Flags().StringVar(&dir, "dir", ".", "where to make the folder")
	return cmd
}

// scaffoldJSON is the line of -o json, described in docs/cli.md.
type scaffoldJSON struct {
	Folder string `json:"folder"`
}
