package bench

import (
	"runtime"
	"runtime/debug"

	"github.com/taskengine/taskengine/bench/result"
)

// Machine describes this machine, and the disk that a folder is on, as far as the system
// tells.
func Machine(dir string) result.Machine {
	m := result.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	describe(&m, dir)
	return m
}

// subject describes this program with a store.
func subject(o *Options) result.Subject {
	s := result.Subject{Name: "taskengine", Version: "(devel)", Store: o.Store, Durability: o.Durability}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s
	}
	if info.Main.Version != "" {
		s.Version = info.Main.Version
	}
	for _, v := range info.Settings {
		switch {
		case v.Key == "vcs.revision":
			s.Revision = v.Value + s.Revision
		case v.Key == "vcs.modified" && v.Value == "true":
			s.Revision += "+changes"
		}
	}
	return s
}
