package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage"
)

// defaultAdmin is where a node's admin listener is unless its configuration says otherwise.
const defaultAdmin = "127.0.0.1:7421"

const backupDatabase = `%s is backed up by what PostgreSQL brings along:
  pg_dump --schema=%s --format=custom   for the tasks of one moment, without stopping anybody
  pg_basebackup, and archiving its log  for a whole server, up to any moment of the past
Restore into a database that no node uses. Tasks that have ended since the backup run again
then, and those that were added since are missing. Logs of tasks are not in the database`

func newBackup(a *app) *cobra.Command {
	var from, admin string
	cmd := &cobra.Command{
		Use:   "backup FOLDER --from STORE",
		Short: "Back up a store in files, also while its node runs",
		Long: `Write a store in files, as it is at one moment, to a new folder, and check it there: every
index is held against the tasks. If a node uses the store, it hands out the files through
its admin listener and goes on with its work. The admin.token that it may ask for is that of
the configuration, or of the environment variable TASKENGINE_ADMIN_TOKEN.

` + placeHelp + `

A folder that is there is never touched, and there is none of this name unless the backup
is whole: until then it is called .FOLDER-partial-…, and what a command that was killed has
left of that goes with the next backup to FOLDER. Its file ` + manifestName + ` says what belongs to it, with checksums:
"taskengine doctor pebble:FOLDER" examines it, and "taskengine restore" makes a node's store
of it. Logs of tasks are not in there. PostgreSQL has its own programs, and this one says
which.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.placeOf(from, "")
			if err != nil {
				return err
			}
			if p.driver == config.Postgres {
				return exit(exitUsage, backupDatabase, p.name, p.schema)
			}
			p.admin = cmp.Or(admin, p.admin, defaultAdmin)
			p.token = a.getenv("TASKENGINE_ADMIN_TOKEN", p.token)
			return untilSignalled(cmd.Context(), func(ctx context.Context) error { return a.backup(ctx, p, args[0]) })
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the store to back up")
	cmd.Flags().StringVar(&admin, "admin", "", "where the admin listener of its node is, if that is not in its configuration (by default "+defaultAdmin+")")
	if err := cmd.MarkFlagRequired("from"); err != nil {
		panic(err) // there is such a flag
	}
	return cmd
}

type backupJSON struct {
	Folder string `json:"folder"`
	Store  string `json:"store"`
	Tasks  int64  `json:"tasks"`
	Bytes  int64  `json:"bytes"`
}

func (a *app) backup(ctx context.Context, p place, folder string) error {
	if err := p.exists(); err != nil {
		return err
	}
	made, err := a.makeStore(ctx, p.driver, folder,
		func(file fileFunc) error { return a.takeBackup(ctx, p, file) },
		func(partial string, made madeStore) error { return writeManifest(ctx, partial, p.driver, made) })
	if err != nil {
		return fmt.Errorf("back up %s: %w", p.name, err)
	}
	return a.showStore(backupJSON{made.path, p.name, made.tasks, made.bytes}, "%d tasks of %s are in %s (%s), checked\n")
}

func (a *app) showStore(j backupJSON, format string) error {
	if a.json() {
		return a.printJSON(j)
	}
	_, err := fmt.Fprintf(a.stdout, format, j.Tasks, j.Store, j.Folder, bytesText(j.Bytes))
	return err
}

// takeBackup hands over the files of a store, which a node may use.
func (a *app) takeBackup(ctx context.Context, p place, file fileFunc) error {
	s, err := openStore(ctx, config.Storage{Driver: p.driver, Path: p.path}, a.newLog(config.Log{Level: slog.LevelWarn}))
	if errors.Is(err, storage.ErrLocked) {
		return askForBackup(ctx, p, file)
	}
	if err != nil {
		return err
	}
	return errors.Join(s.(storage.Backuper).Backup(ctx, file), s.Close())
}

// askForBackup has the node that uses a store hand over its files.
func askForBackup(ctx context.Context, p place, file fileFunc) error {
	base, err := baseURL(p.admin)
	if err != nil {
		return exit(exitUsage, "--admin %.80q is neither host:port nor a URL of http or https", p.admin)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/backup", nil)
	if err != nil {
		return err
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return exit(exitUnavailable, "another process uses the store, and no node answers at %s: %w; say by --admin where its admin listener is", p.admin, errors.Unwrap(err))
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized {
		return exit(exitNotAllowed, "the node at %s wants its admin.token: name its configuration by --from, or set TASKENGINE_ADMIN_TOKEN", p.admin)
	}
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // as much as there is
		return exit(exitUnavailable, "another process uses the store, and what answers at %s does not hand it out: %s: %s; say by --admin where the admin listener of its node is",
			p.admin, res.Status, strings.TrimSpace(string(said)))
	}
	if other := res.Header.Get(server.StoreHeader); !sameFolder(other, p.path) {
		return exit(exitUsage, "the node at %s uses the store in %s and not in %s; say by --admin where the other one's admin listener is", p.admin, other, p.path)
	}
	return server.ReadBackup(res.Body, file)
}

func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// fileFunc takes a file of a store.
type fileFunc = func(name string, size int64, content io.Reader) error

// madeStore is a store in a new folder.
type madeStore struct {
	path         string
	bytes, tasks int64
	files        []manifestFile
}

// makeStore makes a folder of the files of a store. Until they are all there and were
// checked, and finish is content with them, the folder has another name; if anything goes
// wrong, it is removed.
func (a *app) makeStore(
	ctx context.Context, driver config.Driver, folder string, files func(fileFunc) error, finish func(partial string, made madeStore) error,
) (made madeStore, err error) {
	if made.path, err = filepath.Abs(folder); err != nil {
		return made, err
	}
	if err := checkVacant(made.path); err != nil {
		return made, err
	}
	partial, lock, err := makePartial(made.path)
	if err != nil {
		return made, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close(), os.RemoveAll(partial))
		}
	}()
	if err := files(func(name string, size int64, content io.Reader) error {
		written, err := writeDurably(ctx, filepath.Join(partial, name), size, content)
		made.bytes += size
		made.files = append(made.files, written)
		return err
	}); err != nil {
		return made, err
	}
	if made.tasks, err = a.checkFiles(ctx, place{driver: driver, path: partial}); err != nil {
		return made, err
	}
	if err := finish(partial, made); err != nil {
		return made, err
	}
	if err := unlockPartial(partial, lock); err != nil {
		return made, err
	}
	return made, errors.Join(os.Chmod(partial, 0o750), syncFolder(partial), settle(partial, made.path))
}

// checkVacant returns an error unless a folder is not there, or empty.
func checkVacant(folder string) error {
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s is not empty; name another folder, nothing is ever overwritten", folder)
	}
	return err
}

// settle gives a folder its name. What is there must be an empty folder.
func settle(partial, folder string) error {
	if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(partial, folder); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(folder))
}

// writeDurably writes a new file, and returns what it has written when that is durable.
func writeDurably(ctx context.Context, name string, size int64, content io.Reader) (written manifestFile, err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return written, err
	}
	written, err = copyMeasured(ctx, f, filepath.Base(name), content)
	if err == nil && written.Size != size {
		err = fmt.Errorf("%s has %d bytes instead of %d: %w", written.Name, written.Size, size, io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = f.Sync()
	}
	return written, errors.Join(err, f.Close())
}

// readerFunc is an [io.Reader].
type readerFunc func([]byte) (int, error)

// Read implements [io.Reader].
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// readerOf returns a reader that ends with ctx.
func readerOf(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

// syncFolder makes the names in a folder durable.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// checkFiles reads all of a store in files and returns how many tasks it has.
func (a *app) checkFiles(ctx context.Context, p place) (tasks int64, err error) {
	s, err := p.look(ctx, a.newLog(config.Log{Level: slog.LevelWarn}))
	if err != nil {
		return 0, fmt.Errorf("what was written cannot be read: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.(interface{ Check(context.Context) error }).Check(ctx); err != nil {
		return 0, fmt.Errorf("what was written is damaged: %w", err)
	}
	counts, err := s.Count(ctx, storage.Filter{})
	for _, n := range counts {
		tasks += n
	}
	return tasks, err
}
