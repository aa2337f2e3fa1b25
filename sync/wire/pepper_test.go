package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"grattoir/validate"
	"grattoir/validate/manifest"
)

func device(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealedPepperIsOpenedByItsTerminalAloneAndOnlyAsItWasSealed(t *testing.T) {
	own, thief := device(t), device(t)
	p := manifest.NewPepper()
	sealed, err := SealPepper(&own.PublicKey, "shop-1", validate.BlockID{7}, p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseSealedPepper(sealed.Text())
	if err != nil {
		t.Fatal(err)
	}
	open := func(s SealedPepper, k *ecdsa.PrivateKey) (manifest.Pepper, error) {
		key, err := k.ECDH()
		if err != nil {
			t.Fatal(err)
		}
		return s.Open(key)
	}
	if got, err := open(again, own); err != nil || got != p {
		t.Fatal(err)
	}
	changed := map[string]SealedPepper{"another terminal": {"shop-2", again.Block, again.Sealed}, "another block": {"shop-1", validate.BlockID{8}, again.Sealed},
		"a short one": {"shop-1", again.Block, again.Sealed[:len(again.Sealed)-1]}, "nothing": {"shop-1", again.Block, nil}}
	for name, s := range changed {
		if _, err := open(s, own); !errors.Is(err, ErrPepper) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range again.Sealed {
		again.Sealed[i] ^= 1
		if _, err := open(again, own); !errors.Is(err, ErrPepper) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		again.Sealed[i] ^= 1
	}
	if _, err := open(again, thief); !errors.Is(err, ErrPepper) {
		t.Errorf("another key: %v", err)
	}
	if strings.Contains(sealed.Text(), strings.TrimSpace(p.Text())[40:60]) {
		t.Error("the text shows the pepper")
	}
}

func FuzzParseSealedPepper(f *testing.F) {
	f.Add("grattoir-sealed-pepper-v1+shop-1+07000000000000000000000000000000+AAAA\n")
	f.Add("grattoir-sealed-pepper-v1+shop-1+07000000000000000000000000000000+AAAA") // without its line feed
	f.Add("grattoir-sealed-pepper-v1+a+b+c+d\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSealedPepper(text); err == nil && s.Text() != text {
			t.Fatal("accepted, but written in another way")
		}
	})
}
