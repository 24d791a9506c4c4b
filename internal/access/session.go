package access

import "time"

// Session identifies a session of a person that an identity provider has authenticated.
type Session struct {
	Person  string    // the name in audit lines, see [Token.PersonName]
	Subject string    // identifies the person at the provider
	ID      string    // identifies the session at the provider; "" if that has not named one
	Issued  time.Time // by the clock of the provider
	Begun   time.Time // by the clock of the cluster
}

// Ending ends sessions before their time: one at the provider, or else all of a person that are not newer than Before, by its subject at
// the provider or by its name. An Ending of nobody ends all sessions.
type Ending struct {
	Session string    `json:"session,omitempty"` // the ID of a session
	Subject string    `json:"subject,omitempty"`
	Person  string    `json:"person,omitempty"`
	Before  time.Time `json:"before"` // by the clock of the provider if there is a Subject, else by that of the cluster
}

// Ends reports whether e ends a session.
func (e *Ending) Ends(s *Session) bool {
	switch {
	case e.Session != "" && s.ID != "":
		return e.Session == s.ID
	case e.Subject != "":
		return e.Subject == s.Subject && !s.Issued.After(e.Before)
	case e.Session != "": // the provider did not say which session it began
		return false
	}
	return (e.Person == "" || e.Person == s.Person) && !s.Begun.After(e.Before)
}
