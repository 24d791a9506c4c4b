// Package doctor examines a store and explains its problems, their effects and their remedies.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/backup"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/health"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/storage/transfer"
)

// Severity is how much a finding matters.
type Severity string

// The severities.
const (
	Info    Severity = "info"    // nothing to do
	Warning Severity = "warning" // to be looked at
	Error   Severity = "error"   // to be mended: tasks do not run, or can be lost
)

// Finding is one thing that an examination found.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"`
	What     string   `json:"what"`
	Why      string   `json:"why,omitempty"`
	Do       string   `json:"do,omitempty"`
}

// Findings are the results of an examination, in the order of its checks.
type Findings []Finding

func (f *Findings) info(check, format string, args ...any) {
	*f = append(*f, Finding{Severity: Info, Check: check, What: fmt.Sprintf(format, args...)})
}

func (f *Findings) add(s Severity, check, what, why, do string) {
	*f = append(*f, Finding{s, check, what, why, do})
}

// Options select further examinations.
type Options struct {
	Keys bool // the encryption keys of the tasks; this reads all tasks

	// Progress is called while a store in files is read, with how many of its tasks were read; nil is never. A total of zero is not known.
	Progress func(read, total int64)
}

// Examine examines the store at p and its coordinator, and each database if there are several. It changes nothing. An
// error means that the store could not be examined.
func Examine(ctx context.Context, p stores.Location, o Options, log *slog.Logger) (Findings, error) {
	found, err := examineStore(ctx, p, o, log)
	if err == nil {
		examineCoordinator(ctx, &found, p.Coordination)
	}
	return found, err
}

// examineStore examines each database of a store.
func examineStore(ctx context.Context, p stores.Location, o Options, log *slog.Logger) (found Findings, err error) {
	p.Part = true
	if len(p.Config.Databases) == 0 {
		return examineOne(ctx, p, o, log)
	}
	others := p.Config.Databases
	p.Config.Databases = nil
	look := func(name string, one stores.Location) error {
		in, err := examineOne(ctx, one, o, log)
		if ctx.Err() != nil {
			return err
		}
		if err != nil { // the others can be looked at all the same
			in.add(Error, "open", database.OneLine(err).Error(), "its tasks do not run, and starting nodes wait for it", "start it, or correct its URL")
		}
		for _, f := range in {
			if name != config.Main {
				f.Check = name + ": " + f.Check
			}
			found = append(found, f)
		}
		return nil
	}
	if err := look(config.Main, p); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if err := look(name, stores.Location{Driver: p.Driver, URL: others[name].Reveal(), Schema: p.Schema, Part: true}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// examineOne opens a store and examines it.
func examineOne(ctx context.Context, p stores.Location, o Options, log *slog.Logger) (found Findings, err error) {
	var manifest *backup.Manifest
	if p.Driver.InFiles() {
		if manifest, err = examineBackup(ctx, &found, p.Path); err != nil {
			return nil, err
		}
	}
	s, err := p.Look(ctx, log)
	switch {
	case err == nil:
	case errors.Is(err, storage.ErrLocked), errors.Is(err, storage.ErrFormat), errors.Is(err, storage.ErrUnreleased), errors.Is(err, stores.ErrOtherDriver), errors.Is(err, stores.ErrNone) && manifest == nil, ctx.Err() != nil:
		return nil, err
	case errors.Is(err, schema.ErrMismatch):
		found.add(Error, "schema", database.OneLine(err).Error(), "nodes of this version do not start on these tables", "follow the message, and see `taskengine migrate verify`")
		return found, nil
	case !p.Driver.InFiles():
		return nil, err
	default:
		found.add(Error, "open", err.Error(), "a node does not start on this store", "look at the disk, and then restore a backup to another folder")
		return found, nil
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := transfer.Unfinished(ctx, s); errors.Is(err, transfer.ErrUnfinished) {
		found.add(Error, "copy", err.Error(), "no node starts on this store", "run the same copy again; or, if it is not wanted, empty the store")
	} else if err != nil {
		return nil, err
	}
	if o.Keys {
		if err := examineKeys(ctx, &found, s); err != nil {
			return nil, err
		}
	}
	if db, ok := s.(*postgres.Store); ok {
		h, err := health.Examine(ctx, db)
		if err != nil {
			return nil, err
		}
		judgeDatabase(&found, h)
		if err := examineCoordination(ctx, &found, db); err != nil {
			return nil, err
		}
		home, err := db.Holdings(ctx)
		if err != nil {
			return nil, err
		}
		judgeHome(&found, home)
		examineTables(ctx, &found, p, h)
		return found, nil
	}
	return found, examineFiles(ctx, &found, p, s, manifest, o.Progress)
}

// ago writes how long before now t was.
func ago(now, t time.Time) string { return units.Span(now.Sub(t)) }
