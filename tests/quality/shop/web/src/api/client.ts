/** Talks to the server; a failed request is tried again with growing pauses. */
export class ApiClient {
  constructor(private readonly base: string, private readonly attempts = 3) {}

  async get(path: string): Promise<unknown> {
    for (let attempt = 0; ; attempt++) {
      const response = await fetch(this.base + path);
      if (response.ok) return response.json();
      if (attempt + 1 >= this.attempts) throw new Error(`${path}: ${response.status}`);
      await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));
    }
  }
}
