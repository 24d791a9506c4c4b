package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/storage"
)

// formatted is a store in files, which has a number of its format.
type formatted interface {
	// Format returns the format of the store, and the one that this program writes.
	Format() (is, own uint64)
}

// folder examines a store in files, which it opens to read only.
func folder(ctx context.Context, p stores.Location, log *slog.Logger) (found Findings) {
	const check = "store"
	if err := p.Exists(); errors.Is(err, stores.ErrNone) {
		found.add(OK, check, fmt.Sprintf("there is no store in %s yet", p.Path), "")
		return found
	}
	s, err := p.Look(ctx, log)
	if err != nil {
		return Findings{ofError(p, err)}
	}
	if f, ok := s.(formatted); ok {
		found = append(found, ofFormat(f.Format()))
	}
	if err := s.Close(); err != nil {
		found.add(Unknown, check, err.Error(), "repeat this")
	}
	return found
}

// ofError is the finding for a store that cannot be opened.
func ofError(p stores.Location, err error) Finding {
	switch {
	case errors.Is(err, storage.ErrLocked):
		return Finding{Unknown, "store", fmt.Sprintf("a node uses %s, and only that one can read it", p.Name), fmt.Sprintf(
			"let it run, take a backup (taskengine backup), and check that: taskengine upgrade check --store %s:FOLDER; or stop the node and repeat this", p.Driver)}
	case errors.Is(err, fs.ErrPermission):
		return Finding{Unknown, "store", err.Error(), "run this as the user of the nodes"}
	case errors.Is(err, storage.ErrFormat), errors.Is(err, storage.ErrUnreleased), errors.Is(err, stores.ErrOtherDriver):
		return Finding{No, "store", err.Error(), ""}
	}
	return Finding{No, "store", err.Error(), "taskengine doctor examines a store that cannot be opened"}
}

// ofFormat is the finding for a store of the format is, which a program with the format own reads.
func ofFormat(is, own uint64) Finding {
	if is == own {
		return Finding{OK, "store", fmt.Sprintf("its format is %d, which this version reads and writes", is), ""}
	}
	return Finding{
		Step, "store", fmt.Sprintf("its format is %d, and this version raises it to %d when it opens the store: earlier versions refuse it from then on", is, own),
		"take a backup before, if you may need to go back",
	}
}
