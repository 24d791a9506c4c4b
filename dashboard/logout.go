package dashboard

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/taskengine/taskengine/dashboard/oidc"
)

// byProvider is the author of an end of sessions by a logout token.
const byProvider = "the identity provider"

// endSessions ends the sessions that a logout token of the provider names. It answers as OpenID Connect Back-Channel Logout 1.0 demands.
func (d *dashboard) endSessions(w http.ResponseWriter, r *http.Request) {
	const maxToken = 64 << 10
	r.Body = http.MaxBytesReader(w, r.Body, maxToken)
	ending, id, err := d.Login.Provider.Ending(r.Context(), r.PostFormValue("logout_token"))
	if err == nil {
		err = d.Login.Ended.End(r.Context(), ending, id, byProvider)
	}
	if err == nil {
		d.Log.Info("the identity provider has ended sessions of a person", "subject", ending.Subject, "session", ending.Session, "from", r.RemoteAddr)
		w.WriteHeader(http.StatusOK)
		return
	}
	level, said := slog.LevelWarn, err.Error()
	if wrong := new(oidc.Error); errors.As(err, &wrong) {
		said = wrong.Said // the cause is for the log alone
		if !wrong.IsDown {
			level = slog.LevelInfo
		}
	}
	d.Log.Log(r.Context(), level, "an order of the identity provider to end sessions was refused", "from", r.RemoteAddr, "error", err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_request", "error_description": strings.ToValidUTF8(said, "")}) // the provider may have gone
}
