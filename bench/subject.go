package bench

import (
	"runtime/debug"

	"github.com/taskengine/taskengine/bench/result"
)

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
