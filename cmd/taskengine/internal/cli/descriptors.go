package cli

import "log/slog"

// What the file descriptors of a node are for. A store that cannot open a file stops, so that
// connections must run out first: they can wait.
const (
	mostStoreFiles   = 500  // what pebble keeps open by itself
	leastStoreFiles  = 80   // fewer the library does not work with
	otherFiles       = 64   // listeners, logs, files being written, sockets of the runtime
	filesPerSlot     = 4    // of a command: its input and outputs, and itself
	unlimitedSlots   = 100  // what is reckoned with if slots are without limit
	adminConnections = 64   // at once
	leastConnections = 8    // of the API, however few descriptors there are
	mostConnections  = 1e6  // of the API, however many
	fewDescriptors   = 1024 // below that a node warns if little is left for connections
)

// descriptors says how many of a limit of open files are for what. Zero is any number.
type descriptors struct {
	store      int // that pebble keeps open
	admin, api int // connections
}

// shareDescriptors divides a limit of open files, zero if there is none that is known.
func shareDescriptors(limit uint64, slots int) (d descriptors) {
	if limit == 0 {
		return descriptors{}
	}
	if slots == 0 {
		slots = unlimitedSlots
	}
	most := int(min(limit, 2*mostConnections))
	d.store = max(min(mostStoreFiles, most/4), leastStoreFiles)
	d.admin = max(min(adminConnections, most/16), leastConnections)
	d.api = most - d.store - d.admin - otherFiles - filesPerSlot*slots
	d.api = min(max(d.api, most/8, leastConnections), mostConnections)
	return d
}

// warnOfFew says that clients may have to wait.
func (d descriptors) warnOfFew(log *slog.Logger, limit uint64) {
	if limit > 0 && limit < fewDescriptors {
		log.Warn("few files may be open at once; connections beyond some wait", "open files", limit, "api connections", d.api,
			"do", "raise the limit (ulimit -n, LimitNOFILE)")
	}
}
