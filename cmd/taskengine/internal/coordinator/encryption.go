package coordinator

import (
	"crypto/tls"
	"fmt"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/tlsfiles"
)

// encryption returns how connections are encrypted; nil if they are not.
func encryption(c config.TLS) (*tls.Config, error) {
	if c.CA == "" {
		return nil, nil
	}
	files := tlsfiles.Client{CA: c.CA, Cert: c.Cert, Key: c.Key, ServerName: c.ServerName}
	if c.CA == config.SystemCA {
		files.CA = ""
	}
	t, err := files.Config()
	if err != nil {
		return nil, fmt.Errorf("coordination.tls.%w", err)
	}
	return t, nil
}
