package wire

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
)

// piecesVector is the contract: the descriptor of 1 MiB of zeros and "grattoir", with
// hashes by coreutils.
const piecesVector = "grattoir pieces v1\nblock 404e35711b954aa90e42a97e99fb10abb3577687311d55134f503609e66579ec\nsize 1048584\npiece 1048576\n" +
	"30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58\n" +
	"9f6f59077123248cb5da595c5f7b8f8f118a0bd041a9f392abc91d2d7c1ec164\n"

func TestDescriptorOfABlockHasOneForm(t *testing.T) {
	content := append(make([]byte, PieceSize), "grattoir"...)
	p, err := ReadPieces(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Text(); got != piecesVector {
		t.Errorf("it is\n%s", got)
	}
	if back, err := ParsePieces(p.Text()); err != nil || back.Name() != p.Name() || len(back.Sums) != 2 {
		t.Errorf("it reads as %+v: %v", back, err)
	}
	last := sha256.Sum256([]byte("grattoir"))
	if !p.Holds(1, last[:]) || p.Holds(0, last[:]) || p.Holds(2, last[:]) {
		t.Error("the pieces are mixed up")
	}
	for name, change := range map[string][2]string{
		"another kind":      {"pieces v1", "pieces v2"},
		"another size":      {"size 1048584", "size 1048576"},
		"no bytes":          {"size 1048584", "size 0"},
		"a leading zero":    {"size 1", "size 01"},
		"another piece":     {"piece 1048576", "piece 1048577"},
		"capitals":          {"30e14955", "30E14955"},
		"a short hash":      {"30e14955", "30e149"},
		"a block unnamed":   {"block 404", "block x"},
		"a tail":            {"cb58\n", "cb58\n\n"},
		"a carriage return": {"cb58\n", "cb58\r\n"},
	} {
		text := strings.Replace(piecesVector, change[0], change[1], 1)
		if _, err := ParsePieces(text); text == piecesVector || !errors.Is(err, ErrText) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParsePieces(strings.Repeat(piecesVector, 200)); !errors.Is(err, ErrText) {
		t.Errorf("200 of them: %v", err)
	}
}

func FuzzParsePieces(f *testing.F) {
	f.Add(piecesVector)
	f.Add("grattoir pieces v1\nblock 0\nsize 1\npiece 1\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePieces(text); err == nil && p.Text() != text {
			t.Fatal("accepted, but writes another text")
		}
	})
}
