// Package tokens keeps tokens of the API in the settings of a cluster, so that they count on all of its nodes.
package tokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/kept"
	"github.com/taskengine/taskengine/internal/access"
)

// RefuseAfter is the age of the last read of the kept tokens from which on a node refuses them, because it cannot say
// which of them were revoked.
const RefuseAfter = kept.RefuseAfter

// Config configures a [Kept].
type Config struct {
	Settings coord.Config          // where the tokens are kept
	File     func() *access.Tokens // the tokens of the file of the node
	Now      func() time.Time      // of the cluster
	Log      *slog.Logger
}

// Kept are the tokens that a cluster keeps, as a node knows them.
type Kept struct {
	Config
	value  *kept.Value[[]Record]
	joined atomic.Pointer[joint] // a cache of Tokens
}

// joint has the tokens of a file and of a snapshot.
type joint struct {
	file, all *access.Tokens
	version   uint64
}

// Open reads the kept tokens.
func Open(ctx context.Context, c Config) (*Kept, error) {
	value, err := kept.Open(ctx, kept.Config[[]Record]{
		Settings: c.Settings, Name: coord.TokensSetting, What: "the tokens of the cluster", Decode: decode, Log: c.Log,
		Refused: "cannot be read, and are refused now; tokens of the file are accepted",
	})
	if err != nil {
		return nil, err
	}
	return &Kept{Config: c, value: value}, nil
}

// Tokens returns the tokens of the file and of the cluster. It does not block.
func (k *Kept) Tokens() *access.Tokens {
	file := k.File()
	records, version := k.value.Known()
	if j := k.joined.Load(); j != nil && j.file == file && j.version == version {
		return j.all
	}
	var accepted []access.Token
	for i := range records {
		accepted = append(accepted, records[i].accepted()...)
	}
	j := &joint{file, access.Join(file, accepted, k.doubt, k.Now), version}
	k.joined.Store(j)
	return j.all
}

// Age returns how long ago the read began by which this node knows the kept tokens.
func (k *Kept) Age() time.Duration { return k.value.Age() }

// Watch follows the changes of the kept tokens until ctx ends: within about a second while the settings can be read.
func (k *Kept) Watch(ctx context.Context) { k.value.Watch(ctx) }

// doubt returns an error if the last read is too old.
func (k *Kept) doubt() error {
	if age := k.Age(); age >= RefuseAfter {
		return fmt.Errorf("it has not been able to read the tokens of the cluster for %v; tokens of the file of api.tokens are accepted", age.Round(time.Second))
	}
	return nil
}

// Errors of changes. An error that wraps none of them is about the request.
var (
	ErrUnknown     = errors.New("there is no such token")
	ErrTaken       = errors.New("the name is taken")
	ErrInvalid     = errors.New("no such token can be")
	ErrNotAllowed  = errors.New("the token cannot be changed so")
	ErrMore        = errors.New("a token cannot give more than it has")
	ErrBusy        = kept.ErrBusy
	ErrUnavailable = kept.ErrUnavailable
)
