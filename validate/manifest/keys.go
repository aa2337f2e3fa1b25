package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

var (
	// ErrSignature means that a text is not signed by enough of the keys asked for.
	ErrSignature = errors.New("not signed by any key given: a wrong key, or not this lottery's file")
	// ErrKeyExpired means a signature of a key whose time is over. The block is signed
	// again with a newer key (central block cosign) and fetched.
	ErrKeyExpired = errors.New("the key that signed it has expired")
)

// Key is a public key that may sign manifests, and the other files of a lottery.
type Key struct {
	verifier note.Verifier
	until    time.Time // end of the last day on which its signatures count, zero for no end
}

// ParseKey reads a public key in note format, with or without its last day:
// "name+hash+key" or "name+hash+key until 2031-12-31", a day in UTC.
func ParseKey(text string) (Key, error) {
	public, day, ends := strings.Cut(strings.TrimSpace(text), " until ")
	v, err := note.NewVerifier(public)
	if err != nil {
		return Key{}, fmt.Errorf("%w (want a line as name+hash+key, made by central key new)", err)
	}
	k := Key{verifier: v}
	if ends {
		last, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return Key{}, fmt.Errorf("last day %.20q of key %s: want it as 2031-12-31", day, v.Name())
		}
		k.until = last.AddDate(0, 0, 1)
	}
	return k, nil
}

// Name is the key's name and hash, as signatures carry it.
func (k Key) Name() string { return k.verifier.Name() + "+" + k.Hash() }

// Hash is the hash that tells the key from another of its name, 8 hexadecimal digits.
func (k Key) Hash() string { return fmt.Sprintf("%08x", k.verifier.KeyHash()) }

// expired tells whether the key's time is over. With no trusted time nothing is.
func (k Key) expired(trusted time.Time) bool {
	return !k.until.IsZero() && !trusted.IsZero() && !trusted.Before(k.until)
}

// Keys is a key ring: whose signatures count, and how many of them a manifest needs.
type Keys struct {
	keys    []Key
	need    int
	trusted time.Time
}

// NewKeys makes a ring of public keys, each as ParseKey reads it. Need is how many
// different ones must have signed.
func NewKeys(need int, public ...string) (Keys, error) {
	if need < 1 || need > len(public) {
		return Keys{}, fmt.Errorf("key ring: %d signatures wanted of %d keys", need, len(public))
	}
	k := Keys{need: need}
	for i, p := range public {
		key, err := ParseKey(p)
		if err != nil {
			return Keys{}, fmt.Errorf("public key %d of %d: %w", i+1, len(public), err)
		}
		if slices.ContainsFunc(k.keys, func(o Key) bool { return o.Name() == key.Name() }) {
			return Keys{}, fmt.Errorf("public key %d of %d: %s stands twice in the ring", i+1, len(public), key.Name())
		}
		k.keys = append(k.keys, key)
	}
	return k, nil
}

// At is the ring at a trusted time, zero for none: signatures of keys whose last day is
// over count no more.
func (k Keys) At(trusted time.Time) Keys {
	k.trusted = trusted
	return k
}

// verify returns the header of a signed note.
func (k Keys) verify(signed []byte) (Header, error) {
	text, _, err := k.Open(signed)
	if err != nil {
		return Header{}, err
	}
	return ParseHeader(text)
}

// Open returns the text of a signed note and the names of the keys whose signatures
// count, when these are enough. Whatever a lottery signs begins with a line that says
// what it is, so a text of one kind is never read as another. The errors are ErrSignature
// and ErrKeyExpired.
func (k Keys) Open(signed []byte) (text string, by []string, err error) {
	var all []note.Verifier
	for _, key := range k.keys {
		all = append(all, key.verifier)
	}
	n, err := note.Open(signed, note.VerifierList(all...))
	if err != nil {
		return "", nil, fmt.Errorf("%w (%w)", ErrSignature, err)
	}
	var late []string
	for _, s := range n.Sigs { // note.Open counts each key once
		i := slices.IndexFunc(k.keys, func(key Key) bool { return key.verifier.Name() == s.Name && key.verifier.KeyHash() == s.Hash })
		if k.keys[i].expired(k.trusted) {
			late = append(late, fmt.Sprintf("%s on %s", k.keys[i].Name(), k.keys[i].until.AddDate(0, 0, -1).Format(time.DateOnly)))
		} else {
			by = append(by, k.keys[i].Name())
		}
	}
	switch {
	case len(by) >= k.need:
		return n.Text, by, nil
	case len(late) > 0:
		return "", nil, fmt.Errorf("%w: %d of %d signatures count; last days: %s", ErrKeyExpired, len(by), k.need, strings.Join(late, ", "))
	}
	return "", nil, fmt.Errorf("%w: %d of %d signatures needed", ErrSignature, len(by), k.need)
}
