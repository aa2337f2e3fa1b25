package ledger

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"grattoir/validate"
)

// TestOpeningsOfOneExchangeOpenAsAnyOther: by crypto/hpke alone, which every central before
// this one opened them with, each with its own claim only.
func TestOpeningsOfOneExchangeOpenAsAnyOther(t *testing.T) {
	secretText, public, err := GenerateClaimKey()
	if err != nil {
		t.Fatal(err)
	}
	sealer := must(NewSealer(must(ParseClaimKey(public))))
	central := must(ParseClaimSecretKey(secretText))
	plain := must(claimKEM().NewPrivateKey(must(base64.StdEncoding.DecodeString(strings.TrimPrefix(secretText, claimPrivatePrefix)))))
	exchanges := map[string]int{}
	var last []byte
	var lastOf int
	seal := func(n, round int, secret string) []byte {
		t.Helper()
		id, key := fmt.Sprintf("%032d", n), validate.TicketKey{Block: validate.BlockID{7}, Pack: uint32(n), Number: uint16(n % 60)}
		sealed, err := sealer.Seal(id, key, round, secret)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := hpke.Open(plain, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), openingInfo(id, key, round), sealed); err != nil || string(got) != secret {
			t.Fatalf("claim %d: %q %v", n, got, err)
		}
		if got, err := central.Open(id, key, round, sealed); err != nil || got != secret {
			t.Fatalf("claim %d by central: %q %v", n, got, err)
		}
		if _, err := central.Open(id, key, round, last); last != nil && lastOf != n && err == nil {
			t.Fatalf("claim %d: the opening of another serves it", n)
		}
		last, lastOf = sealed, n
		exchanges[string(sealed[:32])]++
		return sealed
	}
	for n := range 2*sealerClaims + 1 {
		seal(n, 0, "1234567890123456789012")
	}
	if len(exchanges) != 3 {
		t.Errorf("%d exchanges for %d claims", len(exchanges), 2*sealerClaims+1)
	}
	// The same claim again, as when a code was corrected: the nonce must be another one.
	one, two := seal(1000, 0, "1234567890123456789012"), seal(1000, 0, "1234567890123456789013")
	if string(one[:32]) == string(two[:32]) {
		t.Error("one claim was sealed twice under one exchange")
	}
	if three := seal(1000, 1, "1234567890123456789012"); string(three[:32]) != string(two[:32]) {
		t.Error("another round is another claim, and began an exchange")
	}
}

// TestKeyExchangesAreRememberedWithinBounds: a flood of new ones takes no memory, and what
// is remembered is right.
func TestKeyExchangesAreRememberedWithinBounds(t *testing.T) {
	own := must(ecdh.X25519().NewPrivateKey(make([]byte, 32)))
	recent := &recentShares{key: own, known: map[string][]byte{}}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for n := range maxShares / 2 {
				raw := make([]byte, 32)
				raw[1], raw[2], raw[3] = byte(n), byte(n>>8), byte(g/2) // two of four are the same
				other := must(ecdh.X25519().NewPrivateKey(raw)).PublicKey()
				for range 2 {
					if got := must(recent.ECDH(other)); string(got) != string(must(own.ECDH(other))) {
						t.Error("another secret than the key's")
					}
				}
			}
		})
	}
	all.Wait()
	more := must(ecdh.X25519().GenerateKey(rand.Reader)).PublicKey()
	if _, err := recent.ECDH(more); err != nil {
		t.Fatal(err)
	}
	if len(recent.known) != maxShares || len(recent.order) != maxShares {
		t.Errorf("%d exchanges are remembered, %d in order", len(recent.known), len(recent.order))
	}
	if got := recent.known[string(more.Bytes())]; got == nil {
		t.Error("the newest was forgotten")
	}
}
