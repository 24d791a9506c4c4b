package pebble

import (
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fillPiece is the number of bytes that are filled in one write. Newer kernels keep the bytes of one
// write in one folio, and count all of it as written when one byte of it is: with
// larger pieces the process would seem to write fifty times as much as it does.
const fillPiece = 4 << 10

// filledLog is a log that is filled with zeros ahead of the data. Nearly all syncs then find
// the length of the file unchanged and its blocks allocated, and the file system writes only
// the data. The library overwrites old logs for the same reason; filling helps while there
// are no old logs or only shorter ones, as in the first minutes of a store. A reader takes
// zeros for the end of a log.
//
// All fields but written are owned by the goroutine that writes the log.
type filledLog struct {
	vfs.File
	written  atomic.Int64 // end, as of the last write that is over; for readers of the log
	end      int64        // the offset of the next write
	filled   int64        // the length of the file
	unsynced int64        // bytes written after the last sync
	perSync  int64        // bytes that a sync carries, averaged over the last syncs
}

// filled returns file, which was opened for writing. If it is a log, filled returns it as a
// filledLog.
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

// fill extends the file beyond end. It ignores errors, as of a full disk: the write that follows
// reports them.
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
