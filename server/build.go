package server

import "runtime/debug"

// Build identifies the program.
type Build struct {
	Version string `json:"version"`          // such as v1.2.3; "(devel)" if it was built from a working copy
	Commit  string `json:"commit,omitempty"` // ends in -dirty if the working copy had changes
	Date    string `json:"date,omitempty"`   // of the commit, RFC 3339
	Go      string `json:"go"`
}

// ReadBuild returns the information that the compiler wrote into this program.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: "unknown"}
	}
	b := Build{Version: info.Main.Version, Go: info.GoVersion}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	if dirty && b.Commit != "" {
		b.Commit += "-dirty"
	}
	return b
}
