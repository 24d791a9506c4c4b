package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/tasklog"
)

// taskLog is the log of the tasks and the lock of its folder.
type taskLog struct {
	*tasklog.Log           // nil if the configuration wants none
	lock         io.Closer // nil if the store does it

	stored *tasklog.Stored // the logs in the store, also if this node writes files; nil if the store keeps none
}

// openTaskLog opens the log of the tasks of a node with a name. A folder within that of the open store needs no lock of
// its own: the store has locked it.
func openTaskLog(c *config.Config, store storage.Store, name string, log *slog.Logger) (l taskLog, err error) {
	keeper, ok := store.(storage.LogKeeper)
	if ok {
		encoding, err := codecOf(c.Encoding)
		if err != nil {
			return taskLog{}, err
		}
		l.stored = tasklog.InStore(keeper, tasklog.StoreOptions{Node: name, TaskBytes: int64(c.TaskLog.TaskSize), Codec: encoding})
	}
	if c.TaskLog.MaxSize == 0 {
		return l, nil
	}
	o := tasklog.Options{
		Dir: c.TaskLog.Path, MaxBytes: int64(c.TaskLog.MaxSize),
		AttemptLines: c.TaskLog.AttemptLines, AttemptBytes: c.TaskLog.AttemptSize, Log: log,
	}
	switch {
	case c.TaskLog.InStore && !ok:
		return taskLog{}, fmt.Errorf("task_log.keep: the store %s keeps no logs; write node", c.Storage.Driver)
	case c.TaskLog.InStore:
		o.Store = l.stored
	case c.Storage.Driver == config.Memory:
		o.Dir, o.MaxBytes = "", min(o.MaxBytes, tasklog.DefaultMemoryBytes)
	case filepath.Dir(o.Dir) != c.Storage.Path:
		if l.lock, err = lockFolder(o.Dir); err != nil {
			return taskLog{}, fmt.Errorf("the folder %s of the logs of tasks: %w; write another task_log.path", o.Dir, err)
		}
	}
	l.Log = tasklog.Open(o)
	return l, nil
}

// lockFolder makes a folder and locks it until the lock is closed or this process ends.
func lockFolder(folder string) (io.Closer, error) {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	lock, err := vfs.Default.Lock(filepath.Join(folder, "LOCK"))
	if errors.Is(err, syscall.EAGAIN) {
		return nil, storage.ErrLocked
	}
	return lock, err
}

// close closes the log and unlocks its folder.
func (l taskLog) close(context.Context) error {
	err := l.Log.Close()
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}
