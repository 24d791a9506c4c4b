package node

import (
	"context"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/secret"
	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/dashboard/oidc"
	"github.com/taskengine/taskengine/server/sessions"
)

// openLogin returns how people log in to the dashboard at an identity provider; nil if they do not. It does not wait for the provider.
func (p *parts) openLogin(c *config.OIDC, ended *sessions.Ended) (*dashboard.Login, error) {
	if c == nil {
		return nil, nil
	}
	encryption, err := clientEncryption("ui.oidc.tls", c.TLS)
	if err != nil {
		return nil, err
	}
	grants := make(oidc.Grants, len(c.Grants))
	for value, g := range c.Grants {
		grants[value] = oidc.Grant{Roles: g.Roles, Types: g.Types}
	}
	provider := oidc.New(oidc.Config{
		Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret.Reveal(), Scopes: c.Scopes, Name: c.Name, Claim: c.Claim, Grants: grants, Leeway: c.Leeway, TLS: encryption,
	})
	p.follow("the identity provider", func(ctx context.Context) {
		if err := provider.Check(ctx); err != nil && ctx.Err() == nil {
			p.node.Log.Warn("people cannot log in to the dashboard at the identity provider now; the node tries again when one wants to", "issuer", c.Issuer, "error", err)
		}
		<-ctx.Done()
		provider.Close()
	})
	return &dashboard.Login{
		Provider: provider, Session: c.Session, Redirect: c.RedirectURL, Secret: secret.New(p.engine.Settings(), coord.SessionsSetting).Get, Ended: ended,
	}, nil
}

// openEnded reads which sessions were ended before their time, now and after each change; nil if people do not log in.
func (p *parts) openEnded(ctx context.Context, c *config.OIDC) (ended *sessions.Ended, err error) {
	if c == nil {
		return nil, nil
	}
	conf := sessions.Config{Settings: p.engine.Settings(), Session: c.Session, Now: p.engine.Now, Log: p.node.Log}
	err = database.Retry(ctx, p.node.Config.Storage, p.node.Log, func(ctx context.Context) (err error) {
		ended, err = sessions.Open(ctx, conf)
		return err
	})
	if err == nil {
		p.follow("the ended sessions of the cluster", ended.Watch)
	}
	return ended, err
}
