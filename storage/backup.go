package storage

import (
	"context"
	"io"
)

// Backuper is implemented by stores in files that can be backed up while they are used.
type Backuper interface {
	// Backup hands over the files that make up a store as this one was at one moment after
	// the call: every change that was acknowledged before it is in there, and each update
	// wholly or not at all. Opened elsewhere they are a store of the same kind. The names are
	// plain, and content has exactly size bytes and is good until file returns. Others use
	// the store meanwhile; no call of theirs waits for file. Backup ends with the first
	// error that file returns, and returns it as it is.
	Backup(ctx context.Context, file func(name string, size int64, content io.Reader) error) error
}
