package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/backup"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/units"
)

// defaultAdmin is the address of a node's admin listener unless its configuration names another.
const defaultAdmin = "127.0.0.1:7421"

const backupDatabase = `%s is backed up by the programs of PostgreSQL:
  pg_dump --schema=%s --format=custom   for the tasks of one moment, while nodes run
  pg_basebackup, and archiving its log  for a whole server, up to any moment of the past
Restore into a database that no node uses. Tasks that have ended since the backup run
again, and later tasks are missing. Logs of tasks are not in the database`

func newBackup(a *app) *cobra.Command {
	var from, admin string
	cmd := &cobra.Command{
		Use:   "backup FOLDER --from STORE",
		Short: "Back up a store in files, also while its node runs",
		Long: `Write a store in files, as it is at one moment, to a new folder, and check it there: every
index is checked against the tasks. If a node uses the store, it hands out the files through
its admin listener and goes on with its work. If it needs the admin.token, that comes from the
configuration or from the environment variable TASKENGINE_ADMIN_TOKEN. Without one, the token
of --token-file or TASKENGINE_TOKEN is sent, which needs the role admin.

` + locationHelp + `

An existing folder is never touched, and FOLDER exists only when the backup is complete: until
then it is called .FOLDER-partial-…, and the next backup to FOLDER removes the remains of a
killed command. Its file ` + backup.ManifestName + `lists its files with checksums: "taskengine doctor pebble:FOLDER" examines it, and "taskengine
restore" turns it into the store of a node. Logs of tasks are not in it. PostgreSQL has its own
programs, and this command prints their names.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.locate(from, "")
			if err != nil {
				return err
			}
			if !p.Driver.InFiles() {
				return exit.Errorf(exit.Usage, backupDatabase, p.Name, p.Schema)
			}
			p.Admin = cmp.Or(admin, p.Admin, defaultAdmin)
			if p.Token = a.getenv("TASKENGINE_ADMIN_TOKEN", p.Token); p.Token == "" {
				if p.Token, err = a.token(); err != nil {
					return err
				}
			}
			if p.TLS, err = a.encryption.config(); err != nil {
				return err
			}
			return untilSignalled(cmd.Context(), func(ctx context.Context) error {
				made, err := backup.Take(ctx, p, args[0], a.warnings())
				if err != nil {
					return err
				}
				return a.showMade(made)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the store to back up")
	cmd.Flags().StringVar(&admin, "admin", "", "where the admin listener of its node is, if that is not in its configuration (by default "+defaultAdmin+")")
	if err := cmd.MarkFlagRequired("from"); err != nil {
		panic(err) // there is such a flag
	}
	return cmd
}

// backupJSON is the line of -o json, described in docs/cli.md.
type backupJSON struct {
	Folder string `json:"folder"`
	Store  string `json:"store"`
	Tasks  int64  `json:"tasks"`
	Bytes  int64  `json:"bytes"`
}

// showMade shows a backup, or a store that was made of one.
func (a *app) showMade(m backup.Made) error {
	j := backupJSON{m.Folder, m.From, m.Tasks, m.Bytes}
	if a.json() {
		return a.printJSON(j)
	}
	_, err := fmt.Fprintf(a.stdout, "%d tasks of %s are in %s (%s), checked\n", j.Tasks, j.Store, j.Folder, units.WholeBytes(j.Bytes))
	return err
}
