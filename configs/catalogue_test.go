package configs

import (
	"bytes"
	"reflect"
	"testing"
)

func TestCatalogueIsReadAsItWasWritten(t *testing.T) {
	games, err := Games()
	if err != nil {
		t.Fatal(err)
	}
	text, err := EncodeCatalogue(games)
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeCatalogue(text)
	if err != nil || !reflect.DeepEqual(again, games) {
		t.Fatalf("%d games of %d: %v", len(again), len(games), err)
	}
	if _, err := EncodeCatalogue(append(games, games[0])); err == nil {
		t.Error("a game twice")
	}
	for name, spoilt := range map[string][]byte{
		"nothing":      {},
		"another kind": []byte("grattoir catalogue v2\n"),
		"cut":          text[:len(text)-1],
		"more":         append(bytes.Clone(text), "x"...),
		"a figure":     bytes.Replace(text, []byte("count = 17_900"), []byte("count = 17_901"), 1),
		"a length":     bytes.Replace(text, []byte("game bingo "), []byte("game bingo 1"), 1),
		"an id":        bytes.Replace(text, []byte("game bingo "), []byte("game bongo "), 1),
	} {
		if bytes.Equal(spoilt, text) {
			t.Fatalf("%s: the text was not spoilt", name)
		}
		if _, err := DecodeCatalogue(spoilt); err == nil {
			t.Errorf("%s: read all the same", name)
		}
	}
}

func FuzzCatalogue(f *testing.F) {
	f.Add([]byte(catalogueFirst))
	f.Add([]byte(catalogueFirst + "game x 1\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		games, err := DecodeCatalogue(text)
		if err != nil {
			return
		}
		if _, err := EncodeCatalogue(games); err != nil {
			t.Fatal(err)
		}
	})
}
