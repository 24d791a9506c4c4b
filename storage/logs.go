package storage

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/task"
)

// LogKeeper is a [Store] that keeps logs of tasks, in pieces of bytes that it does not read. No step in the life of a task needs
// them, and a row and its log do not know of each other: who removes a row removes the log. Without it, each node keeps the
// logs of the tasks that it runs.
type LogKeeper interface {
	// AppendLogs appends pieces, each to the log of another task, all or none. After an error they may have been appended:
	// the caller appends them again, and a piece with the Mark of the newest piece of its log is not appended twice.
	// Of each of these logs it removes the oldest pieces that are not within the newest most bytes; it never removes a piece that it
	// appends. The pieces are durable when the call returns. Other calls of the store wait for it no longer than for a change of some rows.
	AppendLogs(ctx context.Context, most int64, pieces ...LogPiece) error

	// ReadLog returns the pieces of the log of a task that are behind after, in the order of their At: at most bytes of
	// them, but one piece at least. more says whether there are others. A piece that is appended later is behind all that
	// were returned before.
	ReadLog(ctx context.Context, id task.ID, after int64, bytes int) (pieces []LogPiece, more bool, err error)

	// LoggedTasks returns the first tasks with an ID above after that have a log, in the order of their IDs, at most limit. It reads an index.
	LoggedTasks(ctx context.Context, after task.ID, limit int) ([]task.ID, error)

	// RemoveLogs removes the logs of some tasks, if they have one.
	RemoveLogs(ctx context.Context, ids ...task.ID) error

	// TrimLogs removes the oldest pieces of all logs until they have at most most bytes together, at most limit pieces. It
	// returns how many bytes there are then. It reads an index.
	TrimLogs(ctx context.Context, most int64, limit int) (bytes int64, err error)
}

// LogPiece is a part of the log of a task.
type LogPiece struct {
	Task task.ID
	At   int64  // microseconds since 1970. A piece that would not be behind the newest one of its log gets the next number
	Mark uint64 // distinguishes it from others of its log; not 0
	Data []byte
}

var (
	errBadPiece  = errors.New("a piece of a log has no task, time or mark")
	errTwoPieces = errors.New("two pieces are of the log of one task")
)

// CheckLogPieces returns an error if pieces cannot be arguments of [LogKeeper].AppendLogs.
func CheckLogPieces(pieces []LogPiece) error {
	seen := make(map[task.ID]bool, len(pieces))
	for i := range pieces {
		p := &pieces[i]
		switch {
		case p.Task.IsZero() || p.Mark == 0 || p.At <= 0:
			return errBadPiece
		case seen[p.Task]:
			return errTwoPieces
		}
		seen[p.Task] = true
	}
	return nil
}
