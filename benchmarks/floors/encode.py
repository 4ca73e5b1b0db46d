"""Floor of counting: the encoder alone, once over every text."""


def encode(encoder, texts):
    for text in texts:
        encoder(text)
