package server

import (
	"encoding/json"
	"expvar"
	"io"
	"net/http"
	"net/http/pprof"
)

// AdminConfig configures the admin listener.
type AdminConfig struct {
	Health  *Health
	Metrics *Metrics
	Build   Build
	Backups *Backups // nil for none
	Token   string   // that requests to private paths must carry; "" for none: then they must come from this machine
}

// NewAdmin returns the handler of the admin listener. Backups and profiles contain tasks, so their paths are private: see
// [AdminConfig.Token].
func NewAdmin(c AdminConfig) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		plain(w)
		io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /readyz", c.Health.ready)
	mux.Handle("GET /metrics", c.Metrics.Handler())
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(c.Build) // an error means that the client has gone
	})
	if c.Backups != nil {
		mux.Handle("POST /backup", private(c.Token, http.HandlerFunc(c.Backups.serve)))
	}
	debug := http.NewServeMux()
	debug.Handle("GET /debug/vars", expvar.Handler())
	debug.HandleFunc("/debug/pprof/", pprof.Index) // any method: pprof reads symbols by POST
	debug.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	debug.HandleFunc("/debug/pprof/profile", pprof.Profile)
	debug.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	debug.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/", private(c.Token, debug))
	return mux
}
