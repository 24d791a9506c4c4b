package pebble

import (
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fillPiece is how many bytes are filled in one write. Newer kernels keep in one piece
// what was written together, and count all of it as written when a byte of it is: in
// larger pieces the process would seem to write fifty times what it does.
const fillPiece = 4 << 10

// filledLog is a log that is filled with zeros ahead of what is written to it. Nearly all
// syncs then find the file as long as it was and all its blocks in place, and the file
// system has nothing to write but the data. The library writes over old logs for the same
// reason; this is for those that it has no old ones for, or only shorter ones, which are
// all logs of a store's first minutes. What reads a log takes zeros for its end.
//
// Everything in it but written is owned by the one who writes the log.
type filledLog struct {
	vfs.File
	written  atomic.Int64 // as end, once the write is over; for those who read the log meanwhile
	end      int64        // where the next write goes
	filled   int64        // where the file ends
	unsynced int64        // how many bytes were written after the last sync
	perSync  int64        // how many bytes a sync carries, averaged over the last ones
}

// filled returns a file that was opened for writing, and if it is a log, one that is
// filled.
func filled(file vfs.File, err error, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err != nil || category != LogCategory {
		return file, err
	}
	old, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &filledLog{File: file, filled: old.Size()}, nil
}

func (f *filledLog) Write(p []byte) (int, error) {
	if f.perSync <= LogFillBelow {
		f.fill(f.end + int64(len(p)))
	}
	n, err := f.File.Write(p)
	f.end += int64(n)
	f.written.Store(f.end)
	f.unsynced += int64(n)
	f.filled = max(f.filled, f.end)
	return n, err
}

// fill makes the file reach beyond end. Where it cannot, as on a full disk, the write that
// follows is left to find that out.
func (f *filledLog) fill(end int64) {
	if f.filled >= end {
		return
	}
	var zeros [fillPiece]byte
	for until := end + LogFillStep - end%LogFillStep; f.filled < until; {
		piece := zeros[:fillPiece-f.filled%fillPiece]
		_, _ = f.WriteAt(piece, f.filled)
		f.filled += int64(len(piece))
	}
}

func (f *filledLog) SyncData() error {
	f.perSync += (f.unsynced - f.perSync) / LogFillSyncs
	f.unsynced = 0
	return f.File.SyncData()
}
