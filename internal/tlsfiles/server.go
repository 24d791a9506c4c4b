package tlsfiles

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
)

// Server names the files of a server.
type Server struct {
	Cert, Key string // of its certificate with its chain, and its key
	ClientCA  string // of the authorities of client certificates; "": clients need no certificate
}

// Config reads the files and returns the settings of a listener. Each handshake looks whether a file was replaced. While
// the files cannot be used, such as a certificate that has another key, handshakes use the files read before, and the
// log gets one line for each reason. An error begins with the name of the part that it is about: cert or client_ca.
func (s Server) Config(log *slog.Logger) (*tls.Config, error) {
	r := &reader{files: s, log: log, seen: s.look()}
	var err error
	if r.config, err = s.read(); err != nil {
		return nil, err
	}
	r.logCertificate()
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.current(), nil },
	}, nil
}

// read reads the files.
func (s Server) read() (*tls.Config, error) {
	pair, err := Pair(s.Cert, s.Key)
	if err != nil {
		return nil, fmt.Errorf("cert: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if s.ClientCA == "" {
		return c, nil
	}
	if c.ClientCAs, err = Authorities(s.ClientCA); err != nil {
		return nil, fmt.Errorf("client_ca: %w", err)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.SessionTicketsDisabled = true // a ticket would admit a client after its authority has lost trust
	return c, nil
}

// look returns the file information of the files; nil for a missing file.
func (s Server) look() []fs.FileInfo {
	paths := []string{s.Cert, s.Key}
	if s.ClientCA != "" {
		paths = append(paths, s.ClientCA)
	}
	infos := make([]fs.FileInfo, len(paths))
	for i, path := range paths {
		infos[i], _ = os.Stat(path) // the error comes again when the file is read
	}
	return infos
}

// reader has the files of a server as they were when they could be used last.
type reader struct {
	files Server
	log   *slog.Logger

	mu      sync.Mutex
	seen    []fs.FileInfo // guarded by mu: of the files that were read last
	config  *tls.Config   // guarded by mu: made from these files; it does not change
	trouble string        // guarded by mu: why the files cannot be used as they are; "" if they can
}

// current returns the settings by the files as they are now.
func (r *reader) current() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.files.look()
	if r.trouble == "" && slices.EqualFunc(now, r.seen, isSame) {
		return r.config
	}
	config, err := r.files.read()
	if err != nil {
		if r.trouble != err.Error() {
			r.trouble = err.Error()
			r.log.Error("the files of TLS were replaced and cannot be used; connections go on with the certificate from before", "cert", r.files.Cert, "error", err)
		}
		return r.config
	}
	r.seen, r.config, r.trouble = now, config, ""
	r.logCertificate()
	return r.config
}

// logCertificate logs the certificate in use. The caller has the mutex, or is the only user of r.
func (r *reader) logCertificate() {
	r.log.Info("connections have this certificate", "cert", r.files.Cert, "valid_until", r.config.Certificates[0].Leaf.NotAfter)
}

// isSame reports whether a file is unchanged.
func isSame(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
