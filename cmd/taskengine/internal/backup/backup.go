// Package backup makes backups of stores in files, also of one that a node is using, and makes
// stores of backups. Neither appears under its name before it is complete and checked.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/address"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/folder"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage"
)

// Made is a backup, or a store that was made of one.
type Made struct {
	Folder string // absolute
	From   string // the name of the store, or the folder of the backup
	Tasks  int64
	Bytes  int64

	files []File // in the order of writing
}

// Take writes a backup of the store at p to a folder, which must be absent or empty. If another
// process uses the store, Take gets the files from the admin listener at p.Admin, with p.Token.
// After an error the folder is as it was.
func Take(ctx context.Context, p stores.Location, to string, log *slog.Logger) (Made, error) {
	if err := p.Exists(); err != nil {
		return Made{}, err
	}
	made, err := build(ctx, p.Driver, to, log,
		func(file fileFunc) error { return takeFiles(ctx, p, log, file) },
		func(partial string, made Made) error { return writeManifest(ctx, partial, p.Driver, made) })
	if err != nil {
		return Made{}, fmt.Errorf("back up %s: %w", p.Name, err)
	}
	made.From = p.Name
	return made, nil
}

// fileFunc takes a file of a store.
type fileFunc = func(name string, size int64, content io.Reader) error

// takeFiles passes the files of a store to file. A node may be using the store.
func takeFiles(ctx context.Context, p stores.Location, log *slog.Logger, file fileFunc) error {
	s, err := stores.Open(ctx, config.Storage{Driver: p.Driver, Path: p.Path}, log)
	if errors.Is(err, storage.ErrLocked) {
		return askNode(ctx, p, file)
	}
	if err != nil {
		return err
	}
	return errors.Join(s.(storage.Backuper).Backup(ctx, file), s.Close())
}

// askNode gets the files of a store from the node that uses it.
func askNode(ctx context.Context, p stores.Location, file fileFunc) error {
	base, ok := address.URL(p.Admin, false)
	if !ok {
		return exit.Errorf(exit.Usage, "--admin %.80q is neither host:port nor a URL of http or https", p.Admin)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/backup", nil)
	if err != nil {
		return err
	}
	if p.Token != "" {
		req.Header.Set("Authorization", "Bearer "+p.Token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: p.TLS}}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return exit.Errorf(exit.Unavailable, "another process uses the store, and no node answers at %s: %w; say by --admin where its admin listener is", p.Admin, errors.Unwrap(err))
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized {
		return exit.Errorf(exit.NotAllowed, "the node at %s wants its admin.token, or a token with the role admin: name its configuration by --from, set TASKENGINE_ADMIN_TOKEN, or name the file of the token by --token-file", p.Admin)
	}
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // as much as there is
		if res.StatusCode == http.StatusForbidden {
			return exit.Errorf(exit.NotAllowed, "the node at %s refuses: %s", p.Admin, strings.TrimSpace(string(said)))
		}
		return exit.Errorf(exit.Unavailable, "another process uses the store, and the server at %s does not send a backup: %s: %s; give the address of the admin listener of its node by --admin",
			p.Admin, res.Status, strings.TrimSpace(string(said)))
	}
	if other := res.Header.Get(server.StoreHeader); !sameFolder(other, p.Path) {
		return exit.Errorf(exit.Usage, "the node at %s uses the store in %s and not in %s; say by --admin where the other one's admin listener is", p.Admin, other, p.Path)
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

// build makes a folder of the files of a store. The folder gets its name when all files are
// written and checked and finish has returned no error. After an error nothing is left of it.
func build(
	ctx context.Context, driver config.Driver, to string, log *slog.Logger, files func(fileFunc) error, finish func(partial string, made Made) error,
) (made Made, err error) {
	if made.Folder, err = filepath.Abs(to); err != nil {
		return made, err
	}
	partial, err := folder.MakePartial(made.Folder)
	if err != nil {
		return made, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, partial.Remove())
		}
	}()
	if err := files(func(name string, size int64, content io.Reader) error {
		written, err := writeDurably(ctx, filepath.Join(partial.Path, name), size, content)
		made.Bytes += size
		made.files = append(made.files, written)
		return err
	}); err != nil {
		return made, err
	}
	if made.Tasks, err = check(ctx, stores.Location{Driver: driver, Path: partial.Path}, log); err != nil {
		return made, err
	}
	if err := finish(partial.Path, made); err != nil {
		return made, err
	}
	return made, partial.Finish()
}

// check reads all of a store in files and returns the number of its tasks.
func check(ctx context.Context, p stores.Location, log *slog.Logger) (tasks int64, err error) {
	s, err := p.Look(ctx, log)
	if err != nil {
		return 0, fmt.Errorf("the written backup cannot be read: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.(interface{ Check(context.Context) error }).Check(ctx); err != nil {
		return 0, fmt.Errorf("the written backup is damaged: %w", err)
	}
	counts, err := s.Count(ctx, storage.Filter{})
	for _, n := range counts {
		tasks += n
	}
	return tasks, err
}
