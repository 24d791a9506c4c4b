package pgsession

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Renew returns a function that reads a connection string again before a connection is opened, so that new connections
// use a password or certificate that was replaced while the program runs. The user, the password and the encryption
// come from the string that read returns and from the files that it names, such as a passfile; everything else stays
// as it was. If the string cannot be read, or is none, nothing changes: the connection fails if the old password does.
func Renew(read func() (string, error)) func(context.Context, *pgx.ConnConfig) error {
	return func(_ context.Context, c *pgx.ConnConfig) error {
		text, err := read()
		if err != nil {
			return nil
		}
		pool, err := pgxpool.ParseConfig(text)
		if err != nil {
			return nil
		}
		fresh := pool.ConnConfig
		c.User, c.Password = fresh.User, fresh.Password
		if fresh.Host != c.Host || len(fresh.Fallbacks) != len(c.Fallbacks) {
			return nil // its certificates are of other servers
		}
		c.TLSConfig = fresh.TLSConfig
		for i, f := range fresh.Fallbacks {
			if old := c.Fallbacks[i]; old.Host == f.Host {
				old.TLSConfig = f.TLSConfig
			}
		}
		return nil
	}
}
