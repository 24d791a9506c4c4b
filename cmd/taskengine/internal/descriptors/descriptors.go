// Package descriptors divides the file descriptors of a process between its store and its
// connections. A store that cannot open a file stops, so connections must run out of descriptors
// first: they can wait.
package descriptors

import "log/slog"

const (
	mostStoreFiles   = 500  // the default of pebble
	leastStoreFiles  = 80   // the library does not work with fewer
	otherFiles       = 64   // listeners, logs, files being written, sockets of the runtime
	filesPerSlot     = 4    // of a command: its input and outputs, and itself
	unlimitedSlots   = 100  // the number assumed if slots have no limit
	adminConnections = 64   // at once
	leastConnections = 8    // of the API, however few descriptors there are
	mostConnections  = 1e6  // of the API, however many descriptors there are
	fewDescriptors   = 1024 // a node with fewer warns
)

// Share is how many descriptors each use gets. Zero is any number.
type Share struct {
	Store      int // files that pebble keeps open
	Admin, API int // connections
}

// Divide divides a limit of open files for a node with a number of slots. A limit of zero is not
// known and shares nothing out. Zero slots have no limit.
func Divide(limit uint64, slots int) (s Share) {
	if limit == 0 {
		return Share{}
	}
	if slots == 0 {
		slots = unlimitedSlots
	}
	most := int(min(limit, 2*mostConnections))
	s.Store = max(min(mostStoreFiles, most/4), leastStoreFiles)
	s.Admin = max(min(adminConnections, most/16), leastConnections)
	s.API = most - s.Store - s.Admin - otherFiles - filesPerSlot*slots
	s.API = min(max(s.API, most/8, leastConnections), mostConnections)
	return s
}

// WarnOfFew logs a warning if the limit is so low that clients may have to wait.
func (s Share) WarnOfFew(log *slog.Logger, limit uint64) {
	if limit > 0 && limit < fewDescriptors {
		log.Warn("few files may be open at once; connections beyond some wait", "open files", limit, "api connections", s.API,
			"do", "raise the limit (ulimit -n, LimitNOFILE)")
	}
}
