package kv

import (
	"context"
)

// Setting implements [storage.Settings].
func (v *View) Setting(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, v.db.fail("setting", err)
	}
	value, found, err := v.r.Get(settingKey(name))
	if err != nil {
		return nil, v.db.fail("setting", err)
	}
	if !found {
		return nil, nil
	}
	return append([]byte{}, value...), nil
}

// SetSetting implements the contract of [storage.Settings] as a part of the transaction. The
// transaction itself does not see the new value.
func (tx *Tx) SetSetting(ctx context.Context, name string, value []byte) error {
	return tx.do(ctx, "set setting", func() error {
		tx.wrote = true
		if value == nil {
			return tx.rw.Delete(settingKey(name))
		}
		return tx.rw.Put(settingKey(name), value)
	})
}
