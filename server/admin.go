package server

import (
	"encoding/json"
	"expvar"
	"io"
	"net/http"
	"net/http/pprof"
)

// AdminConfig is what the admin listener shows.
type AdminConfig struct {
	Health  *Health
	Metrics *Metrics
	Build   Build
	Backups *Backups // nil is none
}

// NewAdmin returns the handler of the admin listener. It is for those who run the node:
// its profiles show what is in memory, tasks included.
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
		json.NewEncoder(w).Encode(c.Build) // the client has gone if this fails
	})
	if c.Backups != nil {
		mux.HandleFunc("POST /backup", c.Backups.serve)
	}
	mux.Handle("GET /debug/vars", expvar.Handler())
	mux.HandleFunc("/debug/pprof/", pprof.Index) // of any method: pprof asks for symbols by POST
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
