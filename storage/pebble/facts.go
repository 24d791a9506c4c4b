package pebble

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/storage/internal/kv"
)

// How a store of this version uses memory and disk, for programs that predict it, such as
// package capacity. These are facts and not promises: a later version may have others.
const (
	// LogFillStep is how many bytes of a log are filled with zeros at a time, ahead of the
	// data. The sync after it is a slow one: the greater the step, the rarer and the longer
	// they are.
	LogFillStep = 256 << 10

	// LogFillBelow is how many bytes a sync may carry for filling to pay. Above, it is the
	// data that takes the time. What counts is the average over about LogFillSyncs syncs.
	LogFillBelow = 8 << 10
	LogFillSyncs = 8

	// InlinePayload is the size in bytes up to which a payload is part of its row. It is then
	// written again with each change of the row.
	InlinePayload = kv.InlineSize

	// DefaultMemTableSize is how many bytes of new data are collected in memory, by default,
	// before they are sorted into a file.
	DefaultMemTableSize = 32 << 20
)

// The categories that the library gives to the files that it writes, for a file system in
// [Options] that distinguishes them.
const (
	LogCategory        vfs.DiskWriteCategory = "pebble-wal"            // the write-ahead log
	FlushCategory      vfs.DiskWriteCategory = "pebble-memtable-flush" // sorted files of new data
	CompactionCategory vfs.DiskWriteCategory = "pebble-compaction"     // files that others were merged into
)
