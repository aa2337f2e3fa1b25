package configs

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"grattoir/validate/game"
)

// A catalogue is the catalogue files of several games as one text, as central gives it to
// terminals: a first line, then for each game, by id, a line with its id and the length of its
// file, and the file.
const catalogueFirst = "grattoir catalogue v1\n"

// EncodeCatalogue writes a catalogue. No two games have one id.
func EncodeCatalogue(games []game.Game) ([]byte, error) {
	games = slices.Clone(games)
	slices.SortFunc(games, func(a, b game.Game) int { return strings.Compare(a.ID, b.ID) })
	var b bytes.Buffer
	b.WriteString(catalogueFirst)
	for i, g := range games {
		if g.ID == "" || i > 0 && games[i-1].ID == g.ID {
			return nil, fmt.Errorf("catalogue: game %q: without an id, or twice", g.ID)
		}
		text, err := EncodeGame(g)
		if err != nil {
			return nil, fmt.Errorf("catalogue: %w", err)
		}
		fmt.Fprintf(&b, "game %s %d\n", g.ID, len(text))
		b.Write(text)
	}
	return b.Bytes(), nil
}

// DecodeCatalogue reads what EncodeCatalogue writes, each game as strictly as DecodeGame.
func DecodeCatalogue(text []byte) ([]game.Game, error) {
	rest, ok := bytes.CutPrefix(text, []byte(catalogueFirst))
	if !ok {
		return nil, fmt.Errorf("catalogue: it does not begin with %q: of a later program, or no catalogue", strings.TrimSpace(catalogueFirst))
	}
	games := []game.Game{}
	for len(rest) > 0 {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		var id string
		var n int
		if _, err := fmt.Sscanf(string(line[:min(len(line), 200)]), "game %s %d", &id, &n); err != nil || n < 1 || n > len(after) || fmt.Sprintf("game %s %d", id, n) != string(line) {
			return nil, fmt.Errorf("catalogue: %.60q names no game with its length", line)
		}
		g, err := DecodeGame(id+".toml", after[:n])
		if err != nil {
			return nil, fmt.Errorf("catalogue: %w", err)
		}
		if g.ID != id || len(games) > 0 && games[len(games)-1].ID >= id {
			return nil, fmt.Errorf("catalogue: game %q under the id %q: out of order, or twice", g.ID, id)
		}
		games = append(games, g)
		rest = after[n:]
	}
	return games, nil
}
