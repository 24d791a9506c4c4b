package node

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/tlsfiles"
	"github.com/taskengine/taskengine/server/peer"
)

// openPeers returns the other nodes of the cluster for the API; nil if the node is alone.
func (p *parts) openPeers() (*peer.Peers, error) {
	settings := p.others.settings()
	if settings == nil {
		return nil, nil
	}
	encryption, err := clientEncryption("api.peer_tls", p.node.Config.API.PeerTLS)
	if err != nil {
		return nil, err
	}
	peers := peer.New(peer.Config{
		Name: p.node.Name, Self: p.engine.Incarnation, Members: p.members, Secrets: settings, TLS: encryption, Log: p.node.Log,
	})
	p.add("the connections with other nodes", func(context.Context) error {
		peers.Close()
		return nil
	})
	return peers, nil
}

// members returns the nodes that are alive, this one included: those that share its store, or have stores of their own.
func (p *parts) members() []coord.Member {
	if all := p.engine.Members(); all != nil {
		return all
	}
	others, _ := p.engine.Peers()
	return others.Members
}

// clientEncryption returns how connections with servers that encrypt are made. key is that of c in the configuration.
func clientEncryption(key string, c config.TLS) (*tls.Config, error) {
	files := tlsfiles.Client{CA: c.CA, Cert: c.Cert, Key: c.Key, ServerName: c.ServerName}
	if c.CA == config.SystemCA {
		files.CA = ""
	}
	t, err := files.Config()
	if err != nil {
		return nil, fmt.Errorf("%s.%w", key, err)
	}
	return t, nil
}
