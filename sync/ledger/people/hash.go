package people

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Cost is what one look at a PIN or password costs whoever looks, with Argon2id (RFC 9106).
// It is stored with each hash, so that it can rise: a hash of another cost is made again
// when what it is of is next typed.
type Cost struct {
	Memory  uint32 // KiB
	Passes  uint32
	Threads uint8
}

// shippedCost is the second of the equivalent settings that OWASP's password storage
// cheat sheet names for Argon2id (19 MiB, 2 passes, 1 lane). The usual 64 MiB would be
// an eighth of a 512 MB board's memory, beside a browser that shows the pages; and no
// cost saves a PIN of so few digits from a thief of the file (see SECURITY.md), so the
// lock-out, not the hash, is what guards it at the counter.
var shippedCost = Cost{Memory: 19 << 10, Passes: 2, Threads: 1}

// What a stored hash may ask for: a damaged file must not exhaust the memory.
const (
	maxMemory  = 256 << 10 // KiB
	maxPasses  = 16
	maxThreads = 4
	saltBytes  = 16
	keyBytes   = 32
)

// Hash gives a secret's hash in the usual text form, $argon2id$v=19$m=,t=,p=$salt$key.
func (c Cost) Hash(secret string) string {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails: the program would have ended
	return c.text(salt, c.key(secret, salt))
}

func (c Cost) key(secret string, salt []byte) []byte {
	return argon2.IDKey([]byte(secret), salt, c.Passes, c.Memory, c.Threads, keyBytes)
}

func (c Cost) text(salt, key []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.Memory, c.Passes, c.Threads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key))
}

// Nobody is a hash that no secret has: what is held against the secret of somebody who does
// not exist, so that the answer takes as long.
func (c Cost) Nobody() string {
	random := make([]byte, saltBytes+keyBytes)
	_, _ = rand.Read(random)
	return c.text(random[:saltBytes], random[saltBytes:])
}

// Matches holds a secret against a stored hash, in the time the hash's cost takes whatever
// the answer, and tells the cost. The error is ErrDamaged.
func Matches(secret, stored string) (bool, Cost, error) {
	c, salt, key, err := parseHash(stored)
	if err != nil {
		return false, c, err
	}
	return subtle.ConstantTimeCompare(c.key(secret, salt), key) == 1, c, nil
}

// parseHash accepts only what text writes, and no cost that would exhaust the machine.
func parseHash(stored string) (c Cost, salt, key []byte, err error) {
	var version int
	head, key64, _ := cutLast(stored, "$")
	head, salt64, _ := cutLast(head, "$")
	_, err = fmt.Sscanf(head, "$argon2id$v=%d$m=%d,t=%d,p=%d", &version, &c.Memory, &c.Passes, &c.Threads)
	salt, err1 := base64.RawStdEncoding.DecodeString(salt64)
	key, err2 := base64.RawStdEncoding.DecodeString(key64)
	if errors.Join(err, err1, err2) != nil || len(salt) != saltBytes || len(key) != keyBytes || c.text(salt, key) != stored ||
		c.Passes < 1 || c.Passes > maxPasses || c.Threads < 1 || c.Threads > maxThreads || c.Memory < 8*uint32(c.Threads) || c.Memory > maxMemory {
		return c, nil, nil, fmt.Errorf("%w: the hash of a PIN or password is none", ErrDamaged)
	}
	return c, salt, key, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
